/** The fields of an answer that are the operation's own. */
export type OwnFields<Answer> = Omit<Answer, "status_code" | "status_message">;

/** An answer without the head that every answer has. */
export function ownFields<Answer extends { readonly status_code: number }>(
  answer: Answer & { readonly status_message: string },
): OwnFields<Answer> {
  const { status_code: _code, status_message: _message, ...own } = answer;
  return own;
}
