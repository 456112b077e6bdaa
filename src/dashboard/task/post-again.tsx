import type { TimelineTask } from "../../api/timeline.ts";
import { Button } from "../part/button.tsx";
import { openPostDialog } from "../post/post-dialog.tsx";
import { draftOf, type TaskDraft } from "../post/task-draft.ts";
import { useKeys } from "../shell/keyboard.ts";
import type { Load } from "../shell/resource.ts";
import { jsonText } from "./json-source.ts";
import { parseTaskText, readTaskText } from "./task-text.ts";

/** The button that posts a task like this one. */
export function PostAgain({ task }: { readonly task: TimelineTask }) {
  const { login } = task;
  const open = () =>
    openPostDialog({ title: "Post again", fill: (load) => readDraft(task, load), login });
  useKeys([{ key: "p", does: "Post it again", run: open }]);
  return (
    <Button isLarge press={open}>
      Post again…
    </Button>
  );
}

async function readDraft(task: TimelineTask, load: Load): Promise<TaskDraft> {
  if (task.input_bytes === null) return draftOf(task.data, "");
  const { input } = parseTaskText(await readTaskText(task, load));
  if (input === undefined) throw new Error("Its input is nested too deeply to be shown here.");
  return draftOf(task.data, jsonText(input));
}
