import { defineCommand, type Command } from "../kit/command.ts";
import { toggle, type Flags, type Values } from "../kit/flags.ts";
import { runRow, type Fact, type Row } from "./run-row.ts";
import type { World } from "./world.ts";

/** Daemons of a row, unless it says otherwise. */
export const NODES = 3;

const NO_NOTIFY = { "no-notify": toggle("daemons send no notifications, and hear none") };

/** A row with flags of its own, whose values its damage is given. */
interface OwnRow<Own extends Flags> extends Omit<Row, "damage" | "flags" | "nodes"> {
  readonly about: string;
  readonly flags: Own;
  /** Three unless given. */
  readonly nodes?: number;
  readonly damage: (
    world: World,
    fault: () => void,
    values: Values<Own>,
  ) => Promise<readonly Fact[]>;
}

/** A row of the failures of a cluster, as a command. */
export function defineRow<Own extends Flags>({
  about,
  flags,
  nodes = NODES,
  damage,
  ...row
}: OwnRow<Own>): Command {
  const all = { ...flags, ...NO_NOTIFY };
  return defineCommand({
    about,
    flags: all,
    run: (values, bench) =>
      runRow(bench, {
        ...row,
        nodes,
        flags: values["no-notify"] ? ["--no-notify"] : [],
        damage: (world, fault) => damage(world, fault, values),
      }),
  });
}
