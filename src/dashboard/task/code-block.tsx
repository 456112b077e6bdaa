import type { ComponentChildren } from "preact";

import { CopyButton } from "../part/copy-button.tsx";
import { bytesText } from "../shell/format.ts";

interface CodeBlockProps {
  readonly title: string;
  readonly text: string;
  /** The noun in the button's name. */
  readonly what: string;
  readonly children?: ComponentChildren;
}

// Browsers cannot lay out more at once.
const SHOWN_LENGTH_MAX = 262_144;

/** Text as it is, character for character, to be read and copied. */
export function CodeBlock({ title, text, what, children }: CodeBlockProps) {
  const isCut = text.length > SHOWN_LENGTH_MAX;
  return (
    <div class="code">
      <div class="code-head">
        <h3>{title}</h3>
        {children}
        <CopyButton text={text} what={what} />
      </div>
      <pre class="code-block" tabIndex={0} aria-label={title}>
        {isCut ? text.slice(0, SHOWN_LENGTH_MAX).toWellFormed() : text}
      </pre>
      {isCut && (
        <p class="hint">
          The first {bytesText(SHOWN_LENGTH_MAX)} are shown; copying takes all of it.
        </p>
      )}
    </div>
  );
}
