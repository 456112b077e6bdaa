import { stateAtPost } from "../../domain/task/task.ts";
import type { BatchReply, BatchTransport, Operation } from "../common/batch.ts";
import type { Changes } from "../store.ts";
import type { ArgsOf, ValueOf } from "./steps.ts";
import type { Writes } from "./writes.ts";

/** The changes of a batch that others want to hear of: the same that this node takes from the answers of its steps. */
export type News = Partial<Changes>;

type NewsOf = {
  readonly [Name in keyof Writes]?: (args: ArgsOf<Name>, value: ValueOf<Name>) => News;
};

/** By the name of the write; of all others they hear nothing but the accounts. */
const NEWS = {
  insertTasks({ accepted, createdAt }, { kind }) {
    if (kind !== "inserted") return {};
    const queued = accepted.filter((task) => stateAtPost(task, createdAt) === "queued");
    return { types: [...new Set(queued.map(({ type }) => type))] };
  },
  // Whoever hears that a task has ended lets go of it: it must not be told of one that runs somewhere else by now.
  finishTask: ({ id }, lanes) =>
    lanes === null ? {} : { lanes, ended: id === undefined ? [] : [id] },
  endLeases({ ends }, results) {
    const ended = ends.filter(
      ({ sequel }, i) => sequel.kind === "finish" && results[i]?.isNew === true,
    );
    return { lanes: results.flatMap(({ lanes }) => lanes), ended: ended.map(({ id }) => id) };
  },
  expireQueued: (_, { tasks, lanes }) => ({ lanes, ended: tasks.map(({ id }) => id) }),
  cancelTask: ({ id }, outcome) => ({ ended: outcome === "cancelled" ? [id] : [] }),
  cancelTasks: (_, { queued, running }) => ({ ended: [...queued, ...running] }),
  eraseTask: ({ id }, outcome) => ({ ended: outcome === "erased" ? [id] : [] }),
  redeliver: (_, lanes) => ({ lanes }),
  stepRedeliveryOrder: (_, { lanes }) => ({ lanes }),
} satisfies NewsOf;

/** The same transport, which tells what each batch did that was committed. */
export function tellingTransport(
  transport: BatchTransport,
  tell: (news: News) => void,
): BatchTransport {
  return {
    async send(batch) {
      const reply = await transport.send(batch);
      if (reply.kind === "committed") tellAll(batch, reply, tell);
      return reply;
    },
    close: () => transport.close(),
  };
}

function tellAll(
  batch: readonly Operation[],
  { values, changed }: Extract<BatchReply, { kind: "committed" }>,
  tell: (news: News) => void,
): void {
  // The table is keyed by the names of writes, each with a function of that write's own arguments and value.
  const table: Readonly<Record<string, ((args: never, value: never) => News) | undefined>> = NEWS;
  if (changed.length > 0) tell({ accounts: changed });
  for (const [i, { name, args }] of batch.entries()) {
    // One that was rejected, or given up by its client, has none.
    if (values[i] === undefined) continue;
    const news = table[name]?.(args as never, values[i] as never);
    if (news !== undefined) tell(news);
  }
}
