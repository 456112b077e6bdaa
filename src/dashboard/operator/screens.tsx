import { NotFoundScreen } from "../shell/navigation.tsx";
import { AccessRequestsScreen } from "./access-requests.tsx";
import { AccountsScreen } from "./accounts.tsx";
import { AuditScreen } from "./audit.tsx";
import { NodesScreen } from "./nodes.tsx";
import { PausesScreen } from "./pauses-screen.tsx";
import { SystemScreen } from "./system.tsx";
import { RunnersScreen } from "./workers.tsx";

export { PauseBanner } from "./pauses-screen.tsx";

/**
 * The operator's screens, by the first part of their path. They are a script of their own, which account holders never
 * load: nothing else may import this file but by `import()`.
 */
export function OperatorScreen({ name }: { readonly name: string }) {
  switch (name) {
    case "accounts":
      return <AccountsScreen />;
    case "access":
      return <AccessRequestsScreen />;
    case "pauses":
      return <PausesScreen />;
    case "audit":
      return <AuditScreen />;
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
