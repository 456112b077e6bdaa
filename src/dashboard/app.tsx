import { useEffect } from "preact/hooks";

import { HostsScreen } from "./hosts/hosts.tsx";
import { KeysScreen } from "./keys/keys.tsx";
import { AccessRequestsScreen } from "./operator/access-requests.tsx";
import { AccountsScreen } from "./operator/accounts.tsx";
import { NodesScreen } from "./operator/nodes.tsx";
import { RunnersScreen } from "./operator/runners.tsx";
import { SystemScreen } from "./operator/system.tsx";
import { OverviewScreen } from "./overview/overview.tsx";
import { Announcer } from "./part/announcer.tsx";
import { KeyHelp } from "./shell/key-help.tsx";
import { startLive } from "./shell/live.ts";
import { Navigation, watchTitle } from "./shell/navigation.tsx";
import { NotFoundScreen } from "./shell/not-found.tsx";
import { actsFor, pathParts } from "./shell/route.ts";
import { isOperator, session } from "./shell/session.ts";
import { SignInScreen } from "./shell/sign-in.tsx";
import { TaskScreen } from "./task/task.tsx";
import { TasksScreen } from "./tasks/tasks.tsx";

/** The whole page. */
export function App() {
  useEffect(startLive, []);
  useEffect(watchTitle, []);
  if (session.value === null) return <SignInScreen />;
  return (
    <>
      <a class="skip-link" href="#main">
        Skip to the content
      </a>
      <Navigation />
      <main id="main" tabIndex={-1}>
        <Screen />
      </main>
      <KeyHelp />
      <Announcer />
    </>
  );
}

function Screen() {
  const [first = "", second] = pathParts.value;
  // Another account is another screen: nothing of the previous one stays.
  const key = actsFor.value ?? "";
  if (second !== undefined) {
    return first === "tasks" ? (
      <TaskScreen key={`${key} ${second}`} id={second} />
    ) : (
      <NotFoundScreen />
    );
  }
  switch (first) {
    case "":
      return <OverviewScreen key={key} />;
    case "tasks":
      return <TasksScreen key={key} />;
    case "hosts":
      return <HostsScreen key={key} />;
    case "keys":
      return <KeysScreen key={key} />;
    default:
      return isOperator.value ? <OperatorScreen name={first} /> : <NotFoundScreen />;
  }
}

function OperatorScreen({ name }: { readonly name: string }) {
  switch (name) {
    case "accounts":
      return <AccountsScreen />;
    case "access":
      return <AccessRequestsScreen />;
    case "runners":
      return <RunnersScreen />;
    case "nodes":
      return <NodesScreen />;
    case "system":
      return <SystemScreen />;
    default:
      return <NotFoundScreen />;
  }
}
