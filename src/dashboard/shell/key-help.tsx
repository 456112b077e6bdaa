import { signal } from "@preact/signals";

import { Dialog } from "../part/dialog.tsx";
import { boundKeys, useKeys } from "./keyboard.ts";

const isOpen = signal(false);

/** The list of keys that `?` opens. */
export function KeyHelp() {
  useKeys([{ key: "?", does: "Show this list", run: () => (isOpen.value = true) }]);
  if (!isOpen.value) return null;
  return (
    <Dialog title="Keys" close={() => (isOpen.value = false)}>
      <dl class="key-list">
        {boundKeys().map(({ key, does }) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
