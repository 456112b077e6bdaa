import { useEffect, useState } from "preact/hooks";

import { Button } from "./button.tsx";
import { CopyButton } from "./copy-button.tsx";
import { Dialog } from "./dialog.tsx";

/** A secret that was just made. */
export interface ShownSecret {
  /** As in "Copy the API key". */
  readonly what: string;
  readonly text: string;
  /** Its purpose, and whether it can be seen again. */
  readonly hint: string;
}

interface ShownOnceProps {
  readonly title: string;
  readonly secrets: readonly ShownSecret[];
  readonly close: () => void;
}

/** Shows secrets this one time. It closes only when the reader confirms that they are stored. */
export function ShownOnce({ title, secrets, close }: ShownOnceProps) {
  const [isStored, setStored] = useState(false);
  useEffect(() => {
    if (isStored) return;
    const warn = (event: BeforeUnloadEvent) => event.preventDefault();
    globalThis.addEventListener("beforeunload", warn);
    return () => globalThis.removeEventListener("beforeunload", warn);
  }, [isStored]);
  return (
    <Dialog title={title} close={close} mayEscape={false}>
      {secrets.map((secret) => (
        <Secret key={secret.what} {...secret} />
      ))}
      <label class="check">
        <input
          type="checkbox"
          checked={isStored}
          onChange={({ currentTarget }) => setStored(currentTarget.checked)}
        />
        {secrets.length === 1 ? "I stored it" : "I stored them"}
      </label>
      <div class="dialog-buttons">
        <Button look="primary" isLarge isDisabled={!isStored} press={close}>
          Close
        </Button>
      </div>
    </Dialog>
  );
}

function Secret({ what, text, hint }: ShownSecret) {
  return (
    <div class="stack stack-tight">
      <h3>{what}</h3>
      <div class="secret">
        <code>{text}</code>
        <CopyButton text={text} what={what} />
      </div>
      <p class="hint">{hint}</p>
    </div>
  );
}
