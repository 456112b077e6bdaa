/** What something that was thrown says: its message where it is an error. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
