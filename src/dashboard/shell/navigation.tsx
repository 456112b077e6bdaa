import { effect } from "@preact/signals";

import { Button } from "../part/control.tsx";
import { Dialog, openDialog } from "../part/dialog.tsx";
import { Facts } from "../part/figure.tsx";
import { Empty } from "../part/panel.tsx";
import { isDev } from "./api.ts";
import { countText } from "./format.ts";
import { boundKeys, useKeys } from "./keyboard.ts";
import { liveCounts, liveState } from "./live.ts";
import { actsFor, go, hrefOf, pathParts } from "./route.ts";
import { isOperator, session, signOut, timeZone } from "./session.ts";

interface Place {
  readonly path: string;
  readonly name: string;
}

const PLACES: readonly Place[] = [
  { path: "/", name: "Overview" },
  { path: "/tasks", name: "Tasks" },
  { path: "/hosts", name: "Hosts" },
  { path: "/keys", name: "Keys & secret" },
];

const DEV_PLACES: readonly Place[] = [{ path: "/inbox", name: "Inbox" }];

const OPERATOR_PLACES: readonly Place[] = [
  { path: "/accounts", name: "Accounts" },
  { path: "/access", name: "Access requests" },
  { path: "/pauses", name: "Pauses" },
  { path: "/runners", name: "Runners & workers" },
  { path: "/nodes", name: "Nodes" },
  { path: "/audit", name: "Audit" },
  { path: "/system", name: "System" },
];

/** From now on, names the browser's tab after the screen; returns a function that stops it. */
export function watchTitle(): () => void {
  return effect(() => {
    const [first = "", id] = pathParts.value;
    const name = [...PLACES, ...DEV_PLACES, ...OPERATOR_PLACES].find(
      ({ path }) => path === `/${first}`,
    )?.name;
    const shown = first === "inbox" ? `Inbox ${id}` : `Task ${id?.slice(-8)}`;
    const title = id === undefined ? name : shown;
    document.title =
      session.value === null || title === undefined ? "postbackd" : `${title} · postbackd`;
  });
}

/** The links to the screens, who is signed in, and whether the page is live. */
export function Navigation() {
  return (
    <header class="side">
      <a class="line brand" href={hrefOf("/")}>
        <Mark />
        postbackd
      </a>
      <nav aria-label="Screens">
        <Places places={isDev.value ? [...PLACES, ...DEV_PLACES] : PLACES} />
        {isOperator.value && (
          <>
            <p class="small nav-title">Operator</p>
            <Places places={OPERATOR_PLACES} />
          </>
        )}
      </nav>
      <div class="side-foot">
        <Live />
        <a href="/docs">API reference</a>
        <p class="small wraps" title="All times are in your time zone">
          Times: {timeZone()}
        </p>
        <Who />
      </div>
    </header>
  );
}

function Places({ places }: { readonly places: readonly Place[] }) {
  const here = `/${pathParts.value[0] ?? ""}`;
  return (
    <ul>
      {places.map(({ path, name }) => (
        <li key={path}>
          <a class="line" href={hrefOf(path)} aria-current={path === here ? "page" : undefined}>
            {name}
            {path === "/tasks" && <RunningCount />}
          </a>
        </li>
      ))}
    </ul>
  );
}

function RunningCount() {
  const running = liveCounts.value?.running ?? 0;
  if (running === 0) return null;
  return (
    <span class="badge tone-busy number" title={`${countText(running)} running`}>
      {countText(running)}
    </span>
  );
}

const LIVE = {
  connecting: { text: "Connecting…", tone: "idle" },
  live: { text: "Live", tone: "good" },
  polling: { text: "Not live: updated every 10 s", tone: "warn" },
  paused: { text: "Paused", tone: "idle" },
} as const;

function Live() {
  const { text, tone } = LIVE[liveState.value];
  return (
    <p class="line small">
      <span class={`tone-${tone}`} aria-hidden="true">
        ●
      </span>
      <span>{text}</span>
    </p>
  );
}

function Who() {
  const { login } = session.value ?? {};
  return (
    <div class="stack stack-small who">
      {isOperator.value ? <Operator /> : <p class="wraps who-name">{login}</p>}
      <Button press={() => void signOut()}>Sign out</Button>
    </div>
  );
}

function Operator() {
  const account = actsFor.value;
  return (
    <div>
      <p class="wraps who-name">Operator</p>
      {account === null ? (
        <p class="small wraps">all accounts</p>
      ) : (
        <p class="small wraps">
          looking at <b>{account}</b>{" "}
          <button type="button" class="link-button" onClick={() => go("/?account=")}>
            show all
          </button>
        </p>
      )}
    </div>
  );
}

export function Mark() {
  const line = { fill: "none", "stroke-linecap": "round", "stroke-linejoin": "round" } as const;
  return (
    <svg width="24" height="24" viewBox="0 0 32 32" stroke-width="2.6" aria-hidden="true">
      <rect width="32" height="32" rx="7" fill="#0f766e" />
      <path {...line} stroke="#fff" d="M8 21V10.5h6.2a4.1 4.1 0 0 1 0 8.2H10.8" />
      <path {...line} stroke="#99f6e4" d="M17.5 23H24m-3-3.2 3.2 3.2-3.2 3.2" />
    </svg>
  );
}

export function NotFoundScreen() {
  return (
    <Empty title="No page exists at this address." isAlone>
      <p>
        <a href={hrefOf("/")}>Go to the overview</a>
      </p>
    </Empty>
  );
}

export function KeyHelp() {
  useKeys([{ key: "?", does: "Show this list", run: () => openDialog(<KeyList />) }]);
  return null;
}

function KeyList() {
  return (
    <Dialog title="Keys">
      <Facts look="facts" rows={boundKeys().map(({ key, does }) => [<kbd>{key}</kbd>, does])} />
    </Dialog>
  );
}
