interface BarProps {
  /** 0 to 1. */
  readonly share: number;
  /** The meaning of the bar, for screen readers. */
  readonly label: string;
  readonly isBad?: boolean;
}

/** A share as a bar. */
export function Bar({ share, label, isBad = false }: BarProps) {
  const percent = Math.min(1, Math.max(0, share)) * 100;
  return (
    <svg
      class={isBad ? "bar bar-bad" : "bar"}
      viewBox="0 0 100 1"
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      <rect class="bar-back" width="100" height="1" />
      <rect width={percent} height="1" />
    </svg>
  );
}
