import { BoxScreen } from "./box.tsx";
import { BoxesScreen } from "./boxes.tsx";

export { ClockBar } from "./clock-bar.tsx";
export { TargetField } from "./target-field.tsx";

/**
 * The screens of a daemon for development, below `/inbox`. They are a script of their own, which no other daemon's page
 * loads: nothing else may import this file but by `import()`.
 */
export function InboxScreen({ box }: { readonly box: string | undefined }) {
  return box === undefined ? <BoxesScreen /> : <BoxScreen key={box} box={box} />;
}
