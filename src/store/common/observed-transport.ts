import type { Clock } from "../../domain/clock/clock.ts";
import type { Observer } from "../../domain/observer.ts";
import type { BatchTransport } from "./batch.ts";

/** The same transport, with the observer told of every commit; as it is where it does not listen. */
export function observedTransport(
  transport: BatchTransport,
  { observer, clock }: { readonly observer?: Observer | undefined; readonly clock: Clock },
): BatchTransport {
  const tell = observer?.commit;
  if (tell === undefined) return transport;
  return {
    async send(batch) {
      const sentAt = clock.monotonic();
      const reply = await transport.send(batch);
      if (reply.kind === "committed") {
        const operations = reply.values.length - reply.rejected.length;
        tell({ operations, ms: clock.monotonic() - sentAt });
      }
      return reply;
    },
    close: () => transport.close(),
  };
}
