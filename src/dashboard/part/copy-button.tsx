import { useState } from "preact/hooks";

import { announce } from "./announcer.tsx";

interface CopyButtonProps {
  readonly text: string;
  /** The noun in the button's name: "id" gives "Copy id". */
  readonly what: string;
  /** The name of the button where it differs. */
  readonly label?: string;
  /** False: a mere icon, whose name is for screen readers and on hover. */
  readonly isLabelled?: boolean;
}

const SHOWN_MS = 1500;

/** Copies a text. Over plain HTTP browsers offer no clipboard: then the text is selected in a prompt. */
export function CopyButton({ text, what, label, isLabelled = false }: CopyButtonProps) {
  const [isCopied, setCopied] = useState(false);
  async function copy(): Promise<void> {
    if (!(await copyAndAnnounce(text, what))) return;
    setCopied(true);
    setTimeout(() => setCopied(false), SHOWN_MS);
  }
  const name = label ?? `Copy ${what}`;
  return (
    <button
      type="button"
      class={isLabelled ? "button button-small" : "icon-button"}
      aria-label={isLabelled ? undefined : name}
      title={isLabelled ? undefined : name}
      onClick={() => void copy()}
    >
      <CopyIcon isDone={isCopied} />
      {isLabelled && <span>{isCopied ? "Copied" : name}</span>}
    </button>
  );
}

/** Copies a text and announces it, or that it failed; true when it worked. */
export async function copyAndAnnounce(text: string, what: string): Promise<boolean> {
  if (await copyText(text)) {
    announce(`Copied the ${what}.`);
    return true;
  }
  announce(`Your browser does not let this page copy. Select and copy the ${what} yourself.`, {
    isProblem: true,
  });
  return false;
}

async function copyText(text: string): Promise<boolean> {
  // Missing where the page did not come over HTTPS or from this machine.
  const clipboard: Clipboard | undefined = navigator.clipboard;
  if (clipboard === undefined) return copyBySelection(text);
  try {
    await clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

function copyBySelection(text: string): boolean {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "off-screen";
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  return isCopied;
}

function CopyIcon({ isDone }: { readonly isDone: boolean }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      {isDone ? (
        <path d="M3 8.5l3.2 3.2L13 4.8" />
      ) : (
        <path d="M5.5 5.5V3.2c0-.4.3-.7.7-.7h6.6c.4 0 .7.3.7.7v6.6c0 .4-.3.7-.7.7h-2.3M3.2 5.5h6.6c.4 0 .7.3.7.7v6.6c0 .4-.3.7-.7.7H3.2a.7.7 0 0 1-.7-.7V6.2c0-.4.3-.7.7-.7z" />
      )}
    </svg>
  );
}
