import { signal } from "@preact/signals";
import { useState } from "preact/hooks";

import type { DeliveryPause } from "../../api/delivery.ts";
import { ANY_TASK, formatTaskSearch } from "../../domain/task/task-search.ts";
import { scopeText } from "../../domain/webhook/delivery-pause.ts";
import { announce } from "../part/announcer.tsx";
import { Button } from "../part/control.tsx";
import { ActionDialog, FormDialog } from "../part/dialog.tsx";
import { Count, Time } from "../part/figure.tsx";
import { Empty, Loaded, None, ScreenHead } from "../part/panel.tsx";
import { type Column, Table } from "../part/table.tsx";
import { ApiError, call } from "../shell/api.ts";
import { countOf } from "../shell/format.ts";
import { useIdCursor, useKeys } from "../shell/keyboard.ts";
import { type Load, useResource } from "../shell/resource.ts";
import { actsFor, hrefOf, tasksPath } from "../shell/route.ts";

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

interface PauseCreationProps {
  readonly close: () => void;
  readonly done: () => void;
}

interface NamedScope {
  readonly login: string | null;
  readonly host: string | null;
}

/** Asks which webhooks to pause, and pauses them: a doubtful pause only after a second question. */
export function PauseCreation({ close, done }: PauseCreationProps) {
  const [login, setLogin] = useState(actsFor.peek() ?? "");
  const [host, setHost] = useState("");
  const [reason, setReason] = useState("");
  // The scope that was asked about, and the question.
  const [asked, setAsked] = useState({ what: "", doubt: "" });
  const scope = { login: login.trim() || null, host: host.trim() || null };
  const what = scopeText(scope);
  const doubt = asked.what === what ? asked.doubt : "";
  async function pause(): Promise<void> {
    const found = asked.what === what ? null : await doubtOf(scope);
    if (found !== null) return setAsked({ what, doubt: found });
    const body = { ...scope, reason: reason.trim() || null };
    const { pause: made } = await call("POST /v1/operator/delivery_pauses", { body });
    announce(`Paused: ${scopeText(made)}.`);
    close();
    done();
  }
  return (
    <FormDialog
      title="Pause webhooks"
      verb={doubt === "" ? "Pause them" : "Pause them anyway"}
      otherwise="Close"
      work={pause}
      close={close}
    >
      <Field name="Account" empty="every account" value={login} change={setLogin} />
      <Field name="Host" empty="every host" value={host} change={setHost} />
      <Field name="Reason" empty="for other operators" value={reason} change={setReason} />
      <p class="wraps">
        <b>This pauses {what}.</b> No attempt starts until you resume them. Attempts in flight
        finish. Tasks run, their webhooks wait, and a pause uses up no retries.
      </p>
      {doubt !== "" && (
        <div class="notice notice-warning" role="alert">
          <p>{doubt}</p>
        </div>
      )}
    </FormDialog>
  );
}

/** The reason to ask again before this pause; null if none exists. */
async function doubtOf({ login, host }: NamedScope): Promise<string | null> {
  if (host === null) {
    return login === null ? "No webhook of any account is sent until you resume them." : null;
  }
  const q = formatTaskSearch({ ...ANY_TASK, login, host });
  const options = { query: { q, limit: 1 }, account: null };
  const page = await call("GET /v1/tasks/search", options).catch((error: unknown) => {
    // The pause itself is refused with the reason.
    if (error instanceof ApiError && error.status === 400) return null;
    throw error;
  });
  if (page === null || page.tasks.length > 0 || page.next_cursor !== null) return null;
  const whose = login === null ? "No webhook" : `No webhook of ${login}`;
  return `${whose} goes to ${host}. A pause covers exactly this host, without its subdomains.`;
}

interface FieldProps {
  readonly name: string;
  /** The meaning of an empty field. */
  readonly empty: string;
  readonly value: string;
  readonly change: (value: string) => void;
}

function Field({ name, empty, value, change }: FieldProps) {
  return (
    <label class="field">
      {name}
      <input
        value={value}
        placeholder={empty}
        autocomplete="off"
        spellcheck={false}
        onInput={({ currentTarget }) => change(currentTarget.value)}
      />
    </label>
  );
}

interface PauseEndProps {
  readonly pause: DeliveryPause;
  readonly close: () => void;
  readonly done: () => void;
}

/** Asks before what is paused goes out. */
export function PauseEnd({ pause, close, done }: PauseEndProps) {
  const { login, host, waiting } = pause;
  const what = scopeText(pause);
  return (
    <ActionDialog
      title={`Resume ${what}?`}
      verb="Resume them"
      otherwise="Keep them paused"
      announcement={`Resumed: ${what}.`}
      work={() => call("POST /v1/operator/delivery_pauses/resume", { body: { login, host } })}
      close={close}
      done={done}
    >
      <p class="wraps">
        {waiting === null ? "What waits" : countOf(waiting, "waiting webhook")} will be sent, each
        in its turn and once it is due, unless another pause covers it. What is sent cannot be
        called back.
      </p>
    </ActionDialog>
  );
}

/** The pauses as they were last read, for the screen and the banner alike. */
export const pauses = signal<readonly DeliveryPause[]>([]);

/** Reads the pauses. */
export async function readPauses(load: Load): Promise<readonly DeliveryPause[]> {
  const answer = await call("GET /v1/operator/delivery_pauses", load);
  pauses.value = answer.pauses;
  return answer.pauses;
}

const BANNER_POLL_MS = 15_000;
const NAMED_MAX = 3;

/** Shows on every screen of the operator which webhooks are paused, so that no pause is forgotten. */
export function PauseBanner() {
  useResource("pauses", readPauses, { everyMs: 0, pollMs: BANNER_POLL_MS });
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
