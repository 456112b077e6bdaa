import { useState } from "preact/hooks";

import type { DeliveryPause } from "../../api/delivery.ts";
import { ANY_TASK, formatTaskSearch } from "../../domain/task/task-search.ts";
import { scopeText } from "../../domain/webhook/delivery-pause.ts";
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
import { PauseCreation } from "./pause-creation.tsx";
import { PauseEnd } from "./pause-end.tsx";
import { readPauses } from "./pauses.ts";

const POLL_MS = 5000;

/** Which webhooks are paused, for the operator: how much waits, and the way to pause and to resume. */
export function PausesScreen() {
  const pauses = useResource("pauses", readPauses, { everyMs: 0, pollMs: POLL_MS });
  const [isPausing, setPausing] = useState(false);
  const [resumed, setResumed] = useState<DeliveryPause | null>(null);
  return (
    <>
      <ScreenHead title="Pauses">
        <Button look="primary" isLarge press={() => setPausing(true)}>
          Pause webhooks…
        </Button>
      </ScreenHead>
      <Loaded resource={pauses}>{(all) => <Pauses all={all} resume={setResumed} />}</Loaded>
      {isPausing && <PauseCreation close={() => setPausing(false)} done={pauses.reload} />}
      {resumed !== null && (
        <PauseEnd pause={resumed} close={() => setResumed(null)} done={pauses.reload} />
      )}
    </>
  );
}

interface PausesProps {
  readonly all: readonly DeliveryPause[];
  readonly resume: (pause: DeliveryPause) => void;
}

function Pauses({ all, resume }: PausesProps) {
  const { current, keys } = useIdCursor(all.map(scopeText), "pause");
  useKeys([
    ...keys,
    {
      key: "r",
      does: "Resume the pause",
      run() {
        const pause = all.find((each) => scopeText(each) === current);
        if (pause !== undefined) resume(pause);
      },
    },
  ]);
  if (all.length === 0) return <NoPauses />;
  return (
    <section class="panel" aria-label="Pauses">
      <Table
        label="Pauses"
        columns={[...COLUMNS, { name: "", cell: (row) => <Resume pause={row} resume={resume} /> }]}
        rows={all}
        keyOf={scopeText}
        current={current}
      />
    </section>
  );
}

function NoPauses() {
  return (
    <div class="panel">
      <Empty title="Nothing is paused.">
        <p>
          Pause webhooks while a receiver is repaired, or while you find out what went wrong: what
          they have to say waits, and no retry is lost.
        </p>
      </Empty>
    </div>
  );
}

const COLUMNS: readonly Column<DeliveryPause>[] = [
  {
    name: "Paused",
    wraps: true,
    cell: (pause) => (
      <a href={hrefOf(tasksOf(pause))} title={`Tasks with ${scopeText(pause)}`}>
        <bdi>{scopeText(pause)}</bdi>
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
  { name: "By", cell: ({ paused_by: by }) => <bdi>{by}</bdi> },
  {
    name: "Reason",
    wraps: true,
    cell: ({ reason }) => (reason === null ? <None /> : <bdi>{reason}</bdi>),
  },
];

/** The tasks whose webhooks wait in a pause. */
function tasksOf({ login, host }: DeliveryPause): string {
  const deliveries = ["scheduled", "retrying"] as const;
  return tasksPath(formatTaskSearch({ ...ANY_TASK, login, host, deliveries }));
}

function Resume({
  pause,
  resume,
}: Pick<PausesProps, "resume"> & { readonly pause: DeliveryPause }) {
  return (
    <Button label={`Resume ${scopeText(pause)}`} press={() => resume(pause)}>
      Resume…
    </Button>
  );
}
