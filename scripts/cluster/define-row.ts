import { defineCommand, type Bench, type Command } from "../kit/command.ts";
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

/** A row of the failures of a cluster. */
export interface DefinedRow<Own extends Flags> {
  /** Of `scripts/cluster.ts`. */
  readonly command: Command;
  /** The same with these values of its flags: rejects when the verdict is not clean. */
  readonly run: (bench: Bench, values: Values<Own>) => Promise<void>;
}

/** Makes one. */
export function defineRow<Own extends Flags>(given: OwnRow<Own>): DefinedRow<Own> {
  const { about, flags, nodes = NODES, damage, ...row } = given;
  const run = (bench: Bench, values: Values<Own>, daemonFlags: readonly string[] = []) =>
    runRow(bench, {
      ...row,
      nodes,
      flags: daemonFlags,
      damage: (world, fault) => damage(world, fault, values),
    });
  const command = defineCommand({
    about,
    flags: { ...flags, ...NO_NOTIFY },
    run: (values, bench) => run(bench, values, values["no-notify"] ? ["--no-notify"] : []),
  });
  return { command, run };
}
