import { NotFoundScreen } from "../shell/navigation.tsx";
import { AccessRequestsScreen } from "./access-requests.tsx";
import { AccountsScreen } from "./accounts.tsx";
import { AuditScreen } from "./audit.tsx";
import { NodesScreen } from "./nodes.tsx";
import { PausesScreen } from "./pauses.tsx";
import { SystemScreen } from "./system.tsx";
import { RunnersScreen } from "./workers.tsx";

export { PauseBanner } from "./pauses.tsx";

const SCREENS = new Map([
  ["accounts", AccountsScreen],
  ["access", AccessRequestsScreen],
  ["pauses", PausesScreen],
  ["audit", AuditScreen],
  ["runners", RunnersScreen],
  ["nodes", NodesScreen],
  ["system", SystemScreen],
]);

/**
 * The operator's screens, by the first part of their path. They are a script of their own, which account holders never
 * load: nothing else may import this file but by `import()`.
 */
export function OperatorScreen({ name }: { readonly name: string }) {
  const Shown = SCREENS.get(name) ?? NotFoundScreen;
  return <Shown />;
}
