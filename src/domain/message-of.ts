/**
 * True for an error of any realm. Jest and vitest's `vmThreads` run a program in a realm of its own. Node and SQLite's
 * addon throw errors of the main realm there, for which `instanceof Error` is false.
 */
export function isError(value: unknown): value is Error {
  if (typeof value !== "object" || value === null) return false;
  return "message" in value && typeof value.message === "string";
}

/** The message of something that was thrown. */
export function messageOf(error: unknown): string {
  return isError(error) ? error.message : String(error);
}

/** The system's name for what went wrong, such as `ENOENT`; null where the error has none. */
export function codeOf(error: unknown): string | null {
  return isError(error) && "code" in error ? String(error.code) : null;
}
