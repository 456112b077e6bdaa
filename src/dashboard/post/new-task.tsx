import { Button } from "../part/button.tsx";
import { useKeys } from "../shell/keyboard.ts";
import { openPostDialog } from "./post-dialog.tsx";
import { EMPTY_DRAFT } from "./task-draft.ts";

/** The button that begins a new task. */
export function NewTask() {
  const open = () =>
    openPostDialog({ title: "New task", fill: () => Promise.resolve(EMPTY_DRAFT) });
  useKeys([{ key: "p", does: "Post a task", run: open }]);
  return (
    <Button look="primary" isLarge press={open}>
      New task…
    </Button>
  );
}
