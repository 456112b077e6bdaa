import { inTurn } from "../kit/in-turn.ts";
import { installPeers } from "./peer-process.ts";
import type { MeasuredRow } from "./report.ts";
import { measurableRows, type RowPlan } from "./rows.ts";
import type { Slice } from "./slice.ts";
import { World } from "./world.ts";

/** Starts the rows that this machine can measure, and measures them in turn. */
export async function measureRows(
  wanted: readonly RowPlan[],
  settings: Pick<World, "place" | "effort"> & {
    readonly rounds: number;
    /** Rounds before the first that counts. */
    readonly uncounted: number;
    readonly note: (news: string) => void;
  },
): Promise<readonly MeasuredRow[]> {
  const { rounds, uncounted, note } = settings;
  const plans = measurableRows(wanted, note);
  if (plans.some(({ needs }) => needs.includes("packages"))) installPeers(note);
  await using world = await World.open(settings);
  const rows: (RowPlan & { readonly measure: () => Promise<Slice> })[] = [];
  for (const plan of plans) rows.push(Object.assign({ measure: await plan.open(world) }, plan));
  const measured = await inTurn(rows, {
    rounds,
    uncounted,
    measure: ({ name, measure }) =>
      measure().catch((error: unknown) => {
        throw new Error(`${name} cannot be measured`, { cause: error });
      }),
    onResult: ({ title, durability }, { tasksPerSecond }) => {
      note(`${title}, ${durability}: ${Math.round(tasksPerSecond)} tasks/s`);
    },
  });
  return measured.map(({ leg, results: slices }) => {
    const { name, title, durability, way = null } = leg;
    return { name, title, durability, way, slices };
  });
}
