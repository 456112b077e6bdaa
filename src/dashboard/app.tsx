import { useEffect } from "preact/hooks";

import { HostsScreen } from "./hosts/hosts.tsx";
import { KeysScreen } from "./keys/keys.tsx";
import { OverviewScreen } from "./overview/overview.tsx";
import { Announcer } from "./part/announcer.tsx";
import { OpenDialog } from "./part/dialog.tsx";
import { Problem } from "./part/panel.tsx";
import { isDev } from "./shell/api.ts";
import { startLive } from "./shell/live.ts";
import { KeyHelp, Navigation, NotFoundScreen, watchTitle } from "./shell/navigation.tsx";
import { actsFor, pathParts } from "./shell/route.ts";
import { devScript, operatorScript, operatorScriptProblem, watchScripts } from "./shell/scripts.ts";
import { isOperator, session } from "./shell/session.ts";
import { SignInScreen } from "./shell/sign-in.tsx";
import { TaskScreen } from "./task/task.tsx";
import { TasksScreen } from "./tasks/tasks.tsx";

export function App() {
  useEffect(startLive, []);
  useEffect(watchTitle, []);
  useEffect(watchScripts, []);
  if (session.value === null) return <SignInScreen />;
  return (
    <>
      <a class="skip-link" href="#main">
        Skip to the content
      </a>
      <Navigation />
      <main id="main" tabIndex={-1}>
        <Clock />
        <Banner />
        <Screen />
      </main>
      <OpenDialog />
      <KeyHelp />
      <Announcer />
    </>
  );
}

function Banner() {
  const script = operatorScript.value;
  return isOperator.value && script !== null ? <script.PauseBanner /> : null;
}

function Clock() {
  const script = devScript.value;
  return script === null ? null : <script.ClockBar />;
}

function Screen() {
  const [first = "", second] = pathParts.value;
  // Another account is another screen: nothing of the previous one stays.
  const key = actsFor.value ?? "";
  if (first === "inbox" && isDev.value) return <DevScreen box={second} />;
  if (second !== undefined) {
    return first === "tasks" ? (
      <TaskScreen key={`${key} ${second}`} id={second} />
    ) : (
      <NotFoundScreen />
    );
  }
  const Shown = SCREENS.get(first);
  if (Shown !== undefined) return <Shown key={key} />;
  return isOperator.value ? <OperatorScreen name={first} /> : <NotFoundScreen />;
}

const SCREENS = new Map([
  ["", OverviewScreen],
  ["tasks", TasksScreen],
  ["hosts", HostsScreen],
  ["keys", KeysScreen],
]);

/** The inboxes of a daemon for development, once their script is there. */
function DevScreen({ box }: { readonly box: string | undefined }) {
  const script = devScript.value;
  return script === null ? <p class="loading">Loading…</p> : <script.InboxScreen box={box} />;
}

/** The operator's screen, once its script is there. */
function OperatorScreen({ name }: { readonly name: string }) {
  const script = operatorScript.value;
  if (script !== null) return <script.OperatorScreen name={name} />;
  const problem = operatorScriptProblem.value;
  if (problem === null) return <p class="loading">Loading…</p>;
  return <Problem text={problem} retry={() => globalThis.location.reload()} />;
}
