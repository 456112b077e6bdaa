import type { RunnerType, WorkerOverview } from "../../api/node.ts";
import { Command } from "../part/command.tsx";
import { countText, durationText } from "../shell/format.ts";

interface WorkerMissingProps {
  readonly type: RunnerType;
  readonly workers: readonly WorkerOverview[];
}

/** Explains how to start a worker, where tasks wait for one and none has called. */
export function WorkerMissing({ type, workers }: WorkerMissingProps) {
  const { name, waiting, waiting_is_more: isMore, oldest_waiting_ms: oldestMs } = type;
  const hasToken = workers.some(
    ({ types, revoked_at: revokedAt }) => revokedAt === null && types.includes(name),
  );
  return (
    <div class="notice notice-warning notice-block" role="status">
      <p>
        <b>No worker connected for {name}.</b> {countText(waiting)}
        {isMore && "+"} {waiting === 1 && !isMore ? "task waits" : "tasks wait"}
        {oldestMs !== null && `, the oldest for ${durationText(oldestMs)}`}, and no worker was heard
        in the last minute. Start one{hasToken ? "" : ", with a token made for it"}:
      </p>
      {!hasToken && <Command text={tokenCommand(name)} />}
      <Command text={workerCommand(name)} />
    </div>
  );
}

/** The command that makes a worker's token. */
export function tokenCommand(type: string): string {
  return `postbackd admin worker create ${type}-1 --type ${type}`;
}

/** The command that starts a worker. */
export function workerCommand(type: string): string {
  const { origin, protocol, hostname } = globalThis.location;
  const isLoopback = /^(?:localhost|.*\.localhost|127\..*|\[::1\])$/.test(hostname);
  const insecure = protocol === "http:" && !isLoopback ? " --insecure-http" : "";
  return `POSTBACKD_TOKEN=pbd_work_… postbackd worker --url ${origin} --type ${type}${insecure} -- PROGRAM`;
}
