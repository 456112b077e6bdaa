/** A clause as a sentence: with a capital and a full stop. */
export function sentence(clause: string): string {
  const [first = "", ...rest] = clause.trim();
  const end = /[.!?…]$/.test(clause.trim()) ? "" : ".";
  return first.toUpperCase() + rest.join("") + end;
}
