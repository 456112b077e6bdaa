/** Who reads advice: the operator can change what the daemon does, an account has to ask for it. */
export type ReaderRole = "operator" | "account";

/** What can be done about something, as clauses in the imperative; one of them at least. */
export interface Advice {
  /** What whoever posts tasks or runs the receiver can do. */
  readonly anybody?: string;
  /** What takes the daemon's configuration, or its machine. */
  readonly operator?: string;
}

/** Advice that its reader can follow: `raise X`, and for an account `ask the operator to raise X`. */
export function adviceText({ anybody, operator }: Advice, role: ReaderRole): string {
  const own = anybody === undefined ? [] : [anybody];
  if (operator === undefined) return own.join("");
  return [...own, role === "operator" ? operator : `ask the operator to ${operator}`].join(", or ");
}
