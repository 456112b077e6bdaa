import type { Clock } from "../../domain/clock/clock.ts";
import type { Observer } from "../../domain/observer.ts";
import type { BatchTransport } from "./batch.ts";

/** The same transport, with the observer told of every commit and of every batch that was refused. */
export function observedTransport(
  transport: BatchTransport,
  { observer, clock }: { readonly observer?: Observer | undefined; readonly clock: Clock },
): BatchTransport {
  const tell = observer?.commit;
  const tellRefusal = observer?.refusal;
  if (tell === undefined && tellRefusal === undefined) return transport;
  return {
    async send(batch) {
      const sentAt = clock.monotonic();
      const reply = await transport.send(batch);
      if (reply.kind === "committed") {
        const operations = reply.values.length - reply.rejected.length;
        tell?.({ operations, ms: clock.monotonic() - sentAt });
      } else tellRefusal?.({ reason: reply.kind });
      return reply;
    },
    close: () => transport.close(),
  };
}
