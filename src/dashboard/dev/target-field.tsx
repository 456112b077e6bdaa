import { Segments } from "../part/control.tsx";
import type { DraftField } from "../post/task-draft.ts";
import { type FieldProps, TextField } from "../post/task-fields.tsx";

interface TargetFieldProps extends FieldProps {
  readonly field: "postback_url" | "pingback_url";
}

const KINDS = [
  { value: "url", text: "URL" },
  { value: "inbox", text: "Inbox" },
] as const;

const WORDS = {
  postback_url: { inbox: "Postback inbox", choice: "Where the postback goes" },
  pingback_url: { inbox: "Pingback inbox", choice: "Where the pingback goes" },
} as const;

// The one that the daemon's own account has.
const STANDARD_BOX = "dev";

/** Where a webhook goes: to a URL, or to an inbox of this daemon, whose name is what its URL ends with. */
export function TargetField(props: TargetFieldProps) {
  const { draft, field, change } = props;
  const base = `${globalThis.location.origin}/inbox/`;
  const isInbox = draft[field].startsWith(base);
  const ofInbox = {
    label: WORDS[field].inbox,
    hint: "The name of an inbox of this daemon, which receives it.",
    draft: { ...draft, [field]: draft[field].slice(base.length) },
    change: (name: DraftField, box: string) => change(name, base + box),
  };
  return (
    <div class="field-pair">
      <TextField {...props} {...(isInbox && ofInbox)} />
      <div class="field">
        <span>Sent to</span>
        <Segments
          label={WORDS[field].choice}
          options={KINDS}
          value={isInbox ? "inbox" : "url"}
          choose={(kind) => change(field, kind === "inbox" ? base + STANDARD_BOX : "")}
        />
      </div>
    </div>
  );
}
