/** The reader of advice: the operator can change what the daemon does, an account has to ask for it. */
export type ReaderRole = "operator" | "account";

/** Actions that can be taken, as clauses in the imperative; at least one of the two. */
export interface Advice {
  /** For those who post tasks or run the receiver. */
  readonly anybody?: string;
  /** For those who have the daemon's configuration, or its machine. */
  readonly operator?: string;
}

/** Advice that its reader can follow: `raise X`, and for an account `ask the operator to raise X`. */
export function adviceText({ anybody, operator }: Advice, role: ReaderRole): string {
  const own = anybody === undefined ? [] : [anybody];
  if (operator === undefined) return own.join("");
  return [...own, role === "operator" ? operator : `ask the operator to ${operator}`].join(", or ");
}
