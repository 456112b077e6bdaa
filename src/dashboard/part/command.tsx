import { CopyButton } from "./copy-button.tsx";

interface CommandProps {
  readonly text: string;
  /** The noun in the button's name: "command" gives "Copy command". */
  readonly what?: string;
}

/** Lines to paste into a terminal. */
export function Command({ text, what = "command" }: CommandProps) {
  return (
    <div class="command">
      <pre class="code-block" tabIndex={0}>
        <code>{text}</code>
      </pre>
      <CopyButton text={text} what={what} />
    </div>
  );
}
