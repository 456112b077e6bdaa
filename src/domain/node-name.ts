import { TYPE_NAME } from "./lease/worker.ts";
import { textRule, type Rule } from "./rule.ts";

/** The name of a node, for people and for what it leaves on its machine: as the name of a type. */
export const NODE_NAME: Rule<string> = textRule({
  ...TYPE_NAME,
  hint: "NAME",
  read: (text) => (TYPE_NAME.parse(text).kind === "value" ? text : null),
});

/** The name of a node that was given none: its machine's, as far as that can be one. */
export function nodeNameOf(machine: string): string {
  const name = machine.replaceAll(/[^A-Za-z0-9._-]/g, "-").slice(0, 64);
  return name === "" ? "node" : name;
}
