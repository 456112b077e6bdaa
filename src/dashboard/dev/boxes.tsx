import type { InboxBox } from "../../api/dev.ts";
import { Empty, Loaded } from "../part/notice.tsx";
import { Panel, ScreenHead } from "../part/panel.tsx";
import { type Column, Table } from "../part/table.tsx";
import { Time } from "../part/time.tsx";
import { call } from "../shell/api.ts";
import { countText } from "../shell/format.ts";
import { useResource } from "../shell/resource.ts";
import { hrefOf } from "../shell/route.ts";

const POLL_MS = 2000;

/** The inboxes of the daemon. */
export function BoxesScreen() {
  const boxes = useResource("inboxes", (load) => call("GET /dev/inbox", load), { pollMs: POLL_MS });
  return (
    <>
      <ScreenHead title="Inbox" />
      <Loaded resource={boxes}>
        {({ boxes: all }) =>
          all.length === 0 ? (
            <Empty title="Nothing was received yet">
              <p>
                Whatever is sent to <code>{globalThis.location.origin}/inbox/NAME</code> is shown
                here, with a verdict on its signature. Post a task with that URL as its{" "}
                <code>postback_url</code>.
              </p>
            </Empty>
          ) : (
            <Panel title="Boxes">
              <Table label="Boxes" columns={COLUMNS} rows={all} keyOf={({ box }) => box} />
            </Panel>
          )
        }
      </Loaded>
    </>
  );
}

const COLUMNS: readonly Column<InboxBox>[] = [
  { name: "Box", cell: ({ box }) => <a href={hrefOf(`/inbox/${box}`)}>{box}</a> },
  { name: "Messages", isNumber: true, cell: ({ messages }) => countText(messages) },
  { name: "Last", cell: ({ last_received_at: at }) => <Time at={at} /> },
];
