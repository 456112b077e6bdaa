import type { DeliveryHold } from "../../api/delivery-hold.ts";
import { scopeText } from "../../domain/webhook/delivery-hold.ts";
import { Time } from "../part/time.tsx";
import { useResource } from "../shell/resource.ts";
import { hrefOf } from "../shell/route.ts";
import { holds, readHolds } from "./holds.ts";

const POLL_MS = 15_000;
const NAMED_MAX = 3;

/** Shows on every screen of the operator which webhooks are paused, so that no pause is forgotten. */
export function HoldBanner() {
  useResource("holds", readHolds, { everyMs: 0, pollMs: POLL_MS });
  const all = holds.value;
  const [first] = all;
  if (first === undefined) return null;
  return (
    <section class="notice notice-warning" aria-label="Paused webhooks">
      <p>{all.length === 1 ? <One hold={first} /> : <Several all={all} />}</p>
      <a href={hrefOf("/holds")}>Holds</a>
    </section>
  );
}

function One({ hold }: { readonly hold: DeliveryHold }) {
  return (
    <>
      <b>Paused: {scopeText(hold)}</b>, since <Time at={hold.since} />
      {hold.reason !== null && (
        <>
          , because: <bdi>{hold.reason}</bdi>
        </>
      )}
    </>
  );
}

function Several({ all }: { readonly all: readonly DeliveryHold[] }) {
  const more = all.length - NAMED_MAX;
  const named = all.slice(0, NAMED_MAX).map(scopeText).join("; ");
  return (
    <>
      <b>Paused: {named}</b>
      {more > 0 && `; and ${more} more`}
    </>
  );
}
