import { stripVTControlCharacters } from "node:util";

import { renderUsage } from "citty";
import type { CommandDef, CommandMeta } from "citty";

/** What citty knows of a command, and what it has no place for. */
export interface ProgramMeta extends CommandMeta {
  /** The whole name, program first: citty would show the last two words only. */
  readonly name: string;
  readonly description: string;
  /** A command line that works. */
  readonly example: string;
  /** What else must be known to use it. */
  readonly notes?: string;
}

/** Says what a command is. Every command's `meta` is made by this, for {@link metaOf}. */
export function programMeta(meta: ProgramMeta): ProgramMeta {
  return meta;
}

/** Reads back what {@link programMeta} gave to a command. */
export function metaOf({ meta }: CommandDef): ProgramMeta {
  // Nothing else gives a meta an example.
  if (typeof meta === "object" && "example" in meta) return meta as ProgramMeta;
  throw new Error("a command whose meta was not made by programMeta");
}

/** A command's help text. Without colours: citty puts them into pipes and files too. */
export async function helpText(command: CommandDef): Promise<string> {
  const { example, notes } = metaOf(command);
  const usage = stripVTControlCharacters(await renderUsage(command)).replaceAll(/ +$/gm, "");
  const parts = [usage.trim(), ...(notes === undefined ? [] : [notes]), `EXAMPLE\n\n  ${example}`];
  return `${parts.join("\n\n")}\n`;
}
