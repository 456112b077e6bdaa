import type { ComponentChildren } from "preact";

interface ButtonProps {
  /** Its kind: the main action, a destructive one, or neither. */
  readonly look?: "primary" | "danger" | "plain";
  readonly isLarge?: boolean;
  readonly isDisabled?: boolean;
  /** Its name for screen readers, where its text alone is not clear. */
  readonly label?: string;
  readonly press: () => void;
  readonly children: ComponentChildren;
}

/** A button. */
export function Button(props: ButtonProps) {
  const { look = "plain", isLarge = false, isDisabled = false, label, press, children } = props;
  return (
    <button
      type="button"
      class={`button button-${look} ${isLarge ? "" : "button-small"}`}
      disabled={isDisabled}
      aria-label={label}
      onClick={press}
    >
      {children}
    </button>
  );
}
