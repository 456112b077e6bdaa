import { countOf, countText } from "../shell/format.ts";
import type { Counted } from "./recovery.ts";

interface RecoveryCountProps {
  readonly counted: Counted;
  readonly isBusy: boolean;
}

/** What a recovery would send again; the number grows while it is counted. */
export function RecoveryCount({ counted, isBusy }: RecoveryCountProps) {
  const { deliveries, hosts, isWhole } = counted;
  const total = countOf(deliveries, "delivery", "deliveries");
  return (
    <div class="recovery-count">
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
        <ul class="recovery-hosts">
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
