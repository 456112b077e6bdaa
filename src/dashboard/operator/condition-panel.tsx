import type { System } from "../../api/operator.ts";
import { absoluteText } from "../shell/format.ts";

/** The states that the operator should end, with how; nothing where there are none. */
export function ConditionPanel({ conditions }: Pick<System, "conditions">) {
  if (conditions.length === 0) return null;
  return (
    <section class="panel attention" aria-labelledby="conditions-title">
      <div class="panel-head">
        <h2 id="conditions-title">Conditions</h2>
      </div>
      <ul>
        {conditions.map(({ name, subject, since, text, remedy }) => (
          <li key={`${name} ${subject ?? ""}`}>
            <span class="badge badge-bad">{name}</span>
            <p>
              {text}: {remedy}. <span class="hint">since {absoluteText(Date.parse(since))}</span>
            </p>
          </li>
        ))}
      </ul>
    </section>
  );
}
