import { effect, signal } from "@preact/signals";

import { Button } from "../part/control.tsx";
import { Dialog } from "../part/dialog.tsx";
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
      <a class="brand" href={hrefOf("/")}>
        <Mark />
        postbackd
      </a>
      <nav aria-label="Screens">
        <Places places={isDev.value ? [...PLACES, ...DEV_PLACES] : PLACES} />
        {isOperator.value && (
          <>
            <p class="nav-title">Operator</p>
            <Places places={OPERATOR_PLACES} />
          </>
        )}
      </nav>
      <div class="side-foot">
        <Live />
        <a href="/docs">API reference</a>
        <p class="who-scope" title="All times are in your time zone">
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
          <a href={hrefOf(path)} aria-current={path === here ? "page" : undefined}>
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
    <span class="nav-count" title={`${countText(running)} running`}>
      {countText(running)}
    </span>
  );
}

const LIVE_TEXTS = {
  connecting: "Connecting…",
  live: "Live",
  polling: "Not live: updated every 10 s",
  paused: "Paused",
} as const;

function Live() {
  return (
    <p class={`live live-${liveState.value}`}>
      <span class="live-dot" aria-hidden="true" />
      {LIVE_TEXTS[liveState.value]}
    </p>
  );
}

function Who() {
  const { login } = session.value ?? {};
  return (
    <div class="who">
      {isOperator.value ? <Operator /> : <p class="who-name">{login}</p>}
      <Button press={() => void signOut()}>Sign out</Button>
    </div>
  );
}

function Operator() {
  const account = actsFor.value;
  return (
    <div>
      <p class="who-name">Operator</p>
      {account === null ? (
        <p class="who-scope">all accounts</p>
      ) : (
        <p class="who-scope">
          looking at <b>{account}</b>{" "}
          <button type="button" class="link-button" onClick={() => go("/?account=")}>
            show all
          </button>
        </p>
      )}
    </div>
  );
}

/** The logo of the product. */
export function Mark() {
  return (
    <svg class="brand-mark" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="7" />
      <path class="mark-p" d="M8 21V10.5h6.2a4.1 4.1 0 0 1 0 8.2H10.8" />
      <path class="mark-arrow" d="M17.5 23H24m-3-3.2 3.2 3.2-3.2 3.2" />
    </svg>
  );
}

/** A URL that leads to no screen. */
export function NotFoundScreen() {
  return (
    <Empty title="There is nothing at this address." isAlone>
      <p>
        <a href={hrefOf("/")}>Go to the overview</a>
      </p>
    </Empty>
  );
}

const isOpen = signal(false);

/** The list of keys that `?` opens. */
export function KeyHelp() {
  useKeys([{ key: "?", does: "Show this list", run: () => (isOpen.value = true) }]);
  if (!isOpen.value) return null;
  return (
    <Dialog title="Keys" close={() => (isOpen.value = false)}>
      <dl class="key-list">
        {boundKeys().map(({ key, does }) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
