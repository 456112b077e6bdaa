import type { BatchReply, BatchTransport, Operation } from "../common/batch.ts";
import { newsOf, type News } from "../common/writes.ts";

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
  if (changed.length > 0) tell({ accounts: changed });
  for (const [i, { name, args }] of batch.entries()) {
    // One that was rejected, or given up by its client, has none.
    if (values[i] === undefined) continue;
    const news = newsOf(name, args, values[i]);
    if (news !== undefined) tell(news);
  }
}
