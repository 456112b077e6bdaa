import type { System } from "../../api/operator.ts";
import { FilterField } from "../part/control.tsx";
import { None, Panel } from "../part/panel.tsx";
import { type Column, Table } from "../part/table.tsx";
import { countText } from "../shell/format.ts";
import { route } from "../shell/route.ts";

type Setting = System["settings"][number];

interface SettingsProps {
  readonly settings: readonly Setting[];
  /** Names of what was changed since the start and takes a restart. */
  readonly restartNeeds: readonly string[];
}

/** The configuration in force, with the source of each value. Values that the operator set come first. */
export function SettingsPanel({ settings, restartNeeds }: SettingsProps) {
  const part = (route.value.query.get("q") ?? "").trim().toLowerCase();
  const found = settings.filter(({ key, value, source }) =>
    `${key} ${value ?? ""} ${source}`.toLowerCase().includes(part),
  );
  const rows = [
    ...found.filter(({ is_default: isDefault }) => !isDefault),
    ...found.filter(({ is_default: isDefault }) => isDefault),
  ];
  const setCount = settings.filter(({ is_default: isDefault }) => !isDefault).length;
  return (
    <Panel
      title="Settings"
      note={`${countText(setCount)} of ${countText(settings.length)} set`}
      tools={<FilterField label="Part of a setting" />}
    >
      {restartNeeds.length > 0 && (
        <div class="panel-body">
          <p class="notice notice-warning">
            These were changed in the configuration and count after a restart:{" "}
            <code>{restartNeeds.join(", ")}</code>
          </p>
        </div>
      )}
      {rows.length === 0 ? (
        <p class="panel-body hint">No setting contains “{part}”.</p>
      ) : (
        <Table
          label="Settings"
          columns={COLUMNS}
          rows={rows}
          keyOf={({ key }) => key}
          isMarked={({ is_default: isDefault }) => !isDefault}
        />
      )}
    </Panel>
  );
}

const COLUMNS: readonly Column<Setting>[] = [
  { name: "Key", cell: ({ key }) => <code>{key}</code> },
  {
    name: "Value",
    wraps: true,
    cell: ({ value }) => (value === null ? <None /> : <code>{value}</code>),
  },
  {
    name: "Source",
    cell: ({ source, is_default: isDefault }) => (
      <span class={isDefault ? "clipped none" : "clipped"} title={source}>
        {source}
      </span>
    ),
  },
];
