import { signal } from "@preact/signals";
import { useState } from "preact/hooks";

import type { DeliveryPause } from "../../api/delivery.ts";
import { ANY_TASK, formatTaskSearch } from "../../domain/task/task-search.ts";
import { scopeText } from "../../domain/webhook/delivery-pause.ts";
import { announce } from "../part/announcer.tsx";
import { Button } from "../part/control.tsx";
import { FormDialog, ask, openDialog } from "../part/dialog.tsx";
import { Count, Time } from "../part/figure.tsx";
import type { Field, Values } from "../part/form.tsx";
import { List } from "../part/list.tsx";
import { Empty, None, Screen } from "../part/panel.tsx";
import type { Column } from "../part/table.tsx";
import { ApiError, call } from "../shell/api.ts";
import { countOf } from "../shell/format.ts";
import { type Load, useResource } from "../shell/resource.ts";
import { actsFor, hrefOf, tasksPath } from "../shell/route.ts";

/** Which webhooks are paused, for the operator: how much waits, and the way to pause and to resume. */
export function PausesScreen() {
  const resource = useResource("pauses", readPauses, { everyMs: 0, pollMs: 5000 });
  const { reload } = resource;
  const resume = (pause: DeliveryPause) => askResume(pause, reload);
  return (
    <Screen
      title="Pauses"
      resource={resource}
      tools={
        <Button look="primary" isLarge press={() => openDialog(<PauseDialog done={reload} />)}>
          Pause webhooks…
        </Button>
      }
    >
      {(all) => (
        <List
          label="Pauses"
          noun="pause"
          keys={[{ key: "r", does: "Resume the pause", run: resume }]}
          columns={[...COLUMNS, resumption(resume)]}
          rows={all}
          keyOf={scopeText}
          empty={
            <Empty title="Nothing is paused.">
              <p>
                Pause webhooks while a receiver is repaired, or while you find out what went wrong:
                webhooks wait and lose no retries.
              </p>
            </Empty>
          }
        />
      )}
    </Screen>
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

function tasksOf({ login, host }: DeliveryPause): string {
  const deliveries = ["scheduled", "retrying"] as const;
  return tasksPath(formatTaskSearch({ ...ANY_TASK, login, host, deliveries }));
}

function resumption(resume: (pause: DeliveryPause) => void): Column<DeliveryPause> {
  return {
    name: "",
    cell: (pause) => (
      <Button label={`Resume ${scopeText(pause)}`} press={() => resume(pause)}>
        Resume…
      </Button>
    ),
  };
}

type PauseField = "login" | "host" | "reason";

const FIELDS: readonly Field<PauseField>[] = [
  { name: "login", label: "Account", input: { placeholder: "every account" } },
  { name: "host", label: "Host", input: { placeholder: "every host" } },
  { name: "reason", label: "Reason", input: { placeholder: "for other operators" } },
];

function scopeOf({ login, host }: Values<PauseField>) {
  return { login: login.trim() || null, host: host.trim() || null };
}

/** Asks which webhooks to pause, and pauses them: a doubtful pause only after a second question. */
function PauseDialog({ done }: { readonly done: () => void }) {
  // The scope that was asked about, and the question.
  const [asked, setAsked] = useState({ what: "", doubt: "" });
  const doubtAbout = (values: Values<PauseField>) =>
    asked.what === scopeText(scopeOf(values)) ? asked.doubt : "";
  async function pause(values: Values<PauseField>): Promise<boolean> {
    const scope = scopeOf(values);
    const what = scopeText(scope);
    const doubt = asked.what === what ? null : await doubtOf(scope);
    if (doubt !== null) {
      setAsked({ what, doubt });
      return false;
    }
    const body = { ...scope, reason: values.reason.trim() || null };
    const { pause: made } = await call("POST /v1/operator/delivery_pauses", { body });
    announce(`Paused: ${scopeText(made)}.`);
    return true;
  }
  return (
    <FormDialog
      title="Pause webhooks"
      verb={(values) => (doubtAbout(values) === "" ? "Pause them" : "Pause them anyway")}
      fields={FIELDS}
      first={{ login: actsFor.peek() ?? "" }}
      note={(values) => (
        <>
          <p class="wraps">
            <b>This pauses {scopeText(scopeOf(values))}.</b> No attempt starts until you resume
            them. Attempts in flight finish. Tasks run, their webhooks wait, and a pause uses up no
            retries.
          </p>
          {doubtAbout(values) !== "" && (
            <div class="row pad wraps notice tone-warn" role="alert">
              <p>{doubtAbout(values)}</p>
            </div>
          )}
        </>
      )}
      work={pause}
      done={done}
    />
  );
}

/** The reason to ask again before this pause; null if none exists. */
async function doubtOf({ login, host }: ReturnType<typeof scopeOf>): Promise<string | null> {
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

function askResume(pause: DeliveryPause, done: () => void): void {
  const { login, host, waiting } = pause;
  const what = scopeText(pause);
  ask({
    title: `Resume ${what}?`,
    verb: "Resume them",
    otherwise: "Keep them paused",
    text: (
      <p class="wraps">
        {waiting === null ? "What waits" : countOf(waiting, "waiting webhook")} will be sent, each
        in its turn and once it is due, unless another pause covers it. What is sent cannot be
        called back.
      </p>
    ),
    work: () => call("POST /v1/operator/delivery_pauses/resume", { body: { login, host } }),
    announcement: `Resumed: ${what}.`,
    done,
  });
}

/** The pauses as they were last read, for the screen and the banner alike. */
export const pauses = signal<readonly DeliveryPause[]>([]);

async function readPauses(load: Load): Promise<readonly DeliveryPause[]> {
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
    <section class="row pad wraps notice tone-warn" aria-label="Paused webhooks">
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
