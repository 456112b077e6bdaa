import { countText } from "../shell/format.ts";

interface CountProps {
  readonly count: number;
  /** A link to the counted things. */
  readonly href?: string;
  /** The counted things, for screen readers and on hover: `12 given up`. */
  readonly what?: string;
  readonly isMore?: boolean;
}

/** A number in a table: zero is quiet, others may link to the counted things. */
export function Count({ count, href, what, isMore = false }: CountProps) {
  if (count === 0) return <span class="none">0</span>;
  const text = `${countText(count)}${isMore ? "+" : ""}`;
  const title = what === undefined ? undefined : `${text} ${what}`;
  if (href === undefined) return <span title={title}>{text}</span>;
  return (
    <a href={href} title={title}>
      {text}
    </a>
  );
}
