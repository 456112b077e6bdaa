import { useState } from "preact/hooks";

import type { DeliveryHold } from "../../api/delivery-hold.ts";
import { ANY_TASK, formatTaskSearch } from "../../domain/task/task-search.ts";
import { scopeText } from "../../domain/webhook/delivery-hold.ts";
import { Button } from "../part/button.tsx";
import { Count } from "../part/count.tsx";
import { Empty, Loaded } from "../part/notice.tsx";
import { None, ScreenHead } from "../part/panel.tsx";
import { type Column, Table } from "../part/table.tsx";
import { Time } from "../part/time.tsx";
import { useIdCursor } from "../shell/id-cursor.ts";
import { useKeys } from "../shell/keyboard.ts";
import { useResource } from "../shell/resource.ts";
import { hrefOf, tasksPath } from "../shell/route.ts";
import { HoldCreation } from "./hold-creation.tsx";
import { HoldRelease } from "./hold-release.tsx";
import { readHolds } from "./holds.ts";

const POLL_MS = 5000;

/** Which webhooks are held, for the operator: how much waits, and the way to hold and to release. */
export function HoldsScreen() {
  const holds = useResource("holds", readHolds, { everyMs: 0, pollMs: POLL_MS });
  const [isHolding, setHolding] = useState(false);
  const [released, setReleased] = useState<DeliveryHold | null>(null);
  return (
    <>
      <ScreenHead title="Holds">
        <Button look="primary" isLarge press={() => setHolding(true)}>
          Hold webhooks…
        </Button>
      </ScreenHead>
      <Loaded resource={holds}>{(all) => <Holds all={all} release={setReleased} />}</Loaded>
      {isHolding && <HoldCreation close={() => setHolding(false)} done={holds.reload} />}
      {released !== null && (
        <HoldRelease hold={released} close={() => setReleased(null)} done={holds.reload} />
      )}
    </>
  );
}

interface HoldsProps {
  readonly all: readonly DeliveryHold[];
  readonly release: (hold: DeliveryHold) => void;
}

function Holds({ all, release }: HoldsProps) {
  const { current, keys } = useIdCursor(all.map(scopeText), "hold");
  useKeys([
    ...keys,
    {
      key: "r",
      does: "Release the hold",
      run() {
        const hold = all.find((each) => scopeText(each) === current);
        if (hold !== undefined) release(hold);
      },
    },
  ]);
  if (all.length === 0) return <NoHolds />;
  return (
    <section class="panel" aria-label="Holds">
      <Table
        label="Holds"
        columns={[
          ...COLUMNS,
          { name: "", cell: (row) => <Release hold={row} release={release} /> },
        ]}
        rows={all}
        keyOf={scopeText}
        current={current}
      />
    </section>
  );
}

function NoHolds() {
  return (
    <div class="panel">
      <Empty title="Nothing is held.">
        <p>
          Hold webhooks while a receiver is repaired, or while you find out what went wrong: what
          they have to say waits, and no retry is lost.
        </p>
      </Empty>
    </div>
  );
}

const COLUMNS: readonly Column<DeliveryHold>[] = [
  {
    name: "Held",
    wraps: true,
    cell: (hold) => (
      <a href={hrefOf(tasksOf(hold))} title={`Tasks with ${scopeText(hold)}`}>
        <bdi>{scopeText(hold)}</bdi>
      </a>
    ),
  },
  { name: "Since", cell: ({ since }) => <Time at={since} /> },
  {
    name: "Waiting",
    title: "Webhooks that wait to be sent, due or not",
    isNumber: true,
    cell: ({ waiting }) => (waiting === null ? <None /> : <Count count={waiting} />),
  },
  { name: "By", cell: ({ held_by: by }) => <bdi>{by}</bdi> },
  {
    name: "Reason",
    wraps: true,
    cell: ({ reason }) => (reason === null ? <None /> : <bdi>{reason}</bdi>),
  },
];

/** The tasks whose webhooks wait in a hold. */
function tasksOf({ login, host }: DeliveryHold): string {
  const deliveries = ["scheduled", "retrying"] as const;
  return tasksPath(formatTaskSearch({ ...ANY_TASK, login, host, deliveries }));
}

function Release({ hold, release }: Pick<HoldsProps, "release"> & { readonly hold: DeliveryHold }) {
  return (
    <Button label={`Release ${scopeText(hold)}`} press={() => release(hold)}>
      Release…
    </Button>
  );
}
