/**
 * What a measured task says of itself in its tag, so that whoever receives its postback can tell how late it is without
 * asking anybody.
 */
export type Tag =
  /** Posted while it is measured; `at` is when it was to be posted, in epoch milliseconds. */
  | { readonly kind: "fresh"; readonly at: number }
  /** A retry that was put into the file before; due so many milliseconds after the first of them. */
  | { readonly kind: "retry"; readonly at: number };

const TAG = /"tag":"(fresh|retry) (\d+(?:\.\d+)?)"/;

export function tagText({ kind, at }: Tag): string {
  return `${kind} ${at}`;
}

/** The tag in an envelope; null where there is none of these. */
export function readTag(envelope: string): Tag | null {
  const [, kind, at] = TAG.exec(envelope) ?? [];
  if (kind !== "fresh" && kind !== "retry") return null;
  return { kind, at: Number(at) };
}
