import { countOf, countText } from "../shell/format.ts";
import type { Counted } from "./redelivery.ts";

interface RedeliveryCountProps {
  readonly counted: Counted;
  readonly isBusy: boolean;
}

/** The number of deliveries that an order would send again; it grows while they are counted. */
export function RedeliveryCount({ counted, isBusy }: RedeliveryCountProps) {
  const { deliveries, hosts, isWhole } = counted;
  const total = countOf(deliveries, "delivery", "deliveries");
  return (
    <div class="redelivery-count">
      <p aria-live="polite">
        {isBusy && <>Counting… {total} so far</>}
        {!isBusy && isWhole && (
          <>
            <b>{total}</b>{" "}
            {deliveries === 0 ? "to send again. Try a longer time." : "to send again."}
          </>
        )}
        {!isBusy && !isWhole && (
          <>Stopped at {total}: there may be more. The order sends them all.</>
        )}
      </p>
      {hosts.length > 0 && (
        <ul class="redelivery-hosts">
          {hosts.map(({ host, deliveries: count }) => (
            <li key={host}>
              <bdi class="mono">{host}</bdi>
              <span class="number">{countText(count)}</span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
