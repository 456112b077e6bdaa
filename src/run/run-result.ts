/** The result of a run as JSON text, or why it has none; `reason` completes "its output …", "its result …". */
export type RunResult =
  | { readonly kind: "result"; readonly resultText: string }
  | { readonly kind: "fault"; readonly reason: string };

/** Accepts JSON text as the result unless it is over `bytesMax` bytes. */
export function toRunResult(resultText: string, bytesMax: number): RunResult {
  // A character takes at least one byte, so a text this long need not be counted.
  const isTooLong = resultText.length > bytesMax || Buffer.byteLength(resultText) > bytesMax;
  if (!isTooLong) return { kind: "result", resultText };
  return { kind: "fault", reason: `is over ${bytesMax} bytes, the limit of a result` };
}
