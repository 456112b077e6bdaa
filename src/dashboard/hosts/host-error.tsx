import type { HostOverview } from "../../api/stats.ts";
import { None } from "../part/panel.tsx";
import { hrefOf } from "../shell/route.ts";

/** The last error of a host, with a link to its task. */
export function HostError({ error }: { readonly error: HostOverview["last_error"] }) {
  if (error === null) return <None />;
  const { http_status: status, task_id: taskId } = error;
  const text = sentence(error.error, status);
  if (taskId === null) {
    return (
      <span class="clipped host-error" title={`${text} (the task has been erased)`}>
        {text}
      </span>
    );
  }
  return (
    <a
      class="clipped host-error"
      href={hrefOf(`/tasks/${taskId}`)}
      title={`${text}. Opens the task.`}
    >
      {text}
    </a>
  );
}

function sentence(error: string | null, status: number | null): string {
  if (error === null) return status === null ? "Failed" : `Answered HTTP ${status}`;
  // The number comes first: the end of the text may be cut.
  if (status !== null) return `HTTP ${status}, ${error}`;
  return error.slice(0, 1).toUpperCase() + error.slice(1);
}
