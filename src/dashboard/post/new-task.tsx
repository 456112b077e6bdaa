import { useState } from "preact/hooks";

import { Button } from "../part/button.tsx";
import { useKeys } from "../shell/keyboard.ts";
import { PostDialog } from "./post-dialog.tsx";
import { EMPTY_DRAFT } from "./task-draft.ts";

/** The button that begins a new task. */
export function NewTask() {
  const [isOpen, setOpen] = useState(false);
  const open = () => setOpen(true);
  useKeys([{ key: "p", does: "Post a task", run: open }]);
  return (
    <>
      <Button look="primary" isLarge press={open}>
        New task…
      </Button>
      {isOpen && (
        <PostDialog
          title="New task"
          fill={() => Promise.resolve(EMPTY_DRAFT)}
          close={() => setOpen(false)}
        />
      )}
    </>
  );
}
