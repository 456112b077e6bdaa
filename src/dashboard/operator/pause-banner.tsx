import type { DeliveryPause } from "../../api/delivery.ts";
import { scopeText } from "../../domain/webhook/delivery-pause.ts";
import { Time } from "../part/time.tsx";
import { useResource } from "../shell/resource.ts";
import { hrefOf } from "../shell/route.ts";
import { pauses, readPauses } from "./pauses.ts";

const POLL_MS = 15_000;
const NAMED_MAX = 3;

/** Shows on every screen of the operator which webhooks are paused, so that no pause is forgotten. */
export function PauseBanner() {
  useResource("pauses", readPauses, { everyMs: 0, pollMs: POLL_MS });
  const all = pauses.value;
  const [first] = all;
  if (first === undefined) return null;
  return (
    <section class="notice notice-warning" aria-label="Paused webhooks">
      <p>{all.length === 1 ? <One pause={first} /> : <Several all={all} />}</p>
      <a href={hrefOf("/pauses")}>Pauses</a>
    </section>
  );
}

function One({ pause }: { readonly pause: DeliveryPause }) {
  return (
    <>
      <b>Paused: {scopeText(pause)}</b>, since <Time at={pause.since} />
      {pause.reason !== null && (
        <>
          , because: <bdi>{pause.reason}</bdi>
        </>
      )}
    </>
  );
}

function Several({ all }: { readonly all: readonly DeliveryPause[] }) {
  const more = all.length - NAMED_MAX;
  const named = all.slice(0, NAMED_MAX).map(scopeText).join("; ");
  return (
    <>
      <b>Paused: {named}</b>
      {more > 0 && `; and ${more} more`}
    </>
  );
}
