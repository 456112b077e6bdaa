import type { Attention } from "../../api/stats.ts";
import { hrefOf } from "../shell/route.ts";

/** The points that need attention, problems first; a quiet line where there are none. */
export function AttentionList({ attention }: { readonly attention: readonly Attention[] }) {
  if (attention.length === 0) {
    return <p class="hint all-well">All is well: nothing needs your attention.</p>;
  }
  const [problems, warnings] = [
    attention.filter(({ level }) => level === "problem"),
    attention.filter(({ level }) => level !== "problem"),
  ];
  return (
    <section class="panel attention" aria-labelledby="attention-title">
      <div class="panel-head">
        <h2 id="attention-title">Needs attention</h2>
      </div>
      <ul>
        {[...problems, ...warnings].map((each) => (
          <AttentionItem key={`${each.what} ${each.text}`} {...each} />
        ))}
      </ul>
    </section>
  );
}

function AttentionItem({ level, text, link }: Attention) {
  return (
    <li>
      <span class={level === "problem" ? "badge badge-bad" : "badge badge-warn"}>{level}</span>
      <p>{text}</p>
      {link !== null && (
        <a href={hrefOf(link)} aria-label={`Open: ${text}`}>
          Open
        </a>
      )}
    </li>
  );
}
