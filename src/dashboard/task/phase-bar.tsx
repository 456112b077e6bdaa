import type { TimelineAttempt } from "../../api/timeline.ts";
import { durationText } from "../shell/format.ts";

const PHASES = [
  { name: "dns", field: "dns_ms" },
  { name: "connect", field: "connect_ms" },
  { name: "tls", field: "tls_ms" },
  { name: "first byte", field: "first_byte_ms" },
] as const;

interface Phase {
  readonly name: string;
  readonly ms: number;
  readonly tone: string;
}

/** The phases of an attempt: one bar, and its numbers. */
export function PhaseBar({ attempt }: { readonly attempt: TimelineAttempt }) {
  const { phases, started_at: start, ended_at: end } = attempt;
  const spent = PHASES.flatMap(({ name, field }): readonly Phase[] => {
    const ms = phases[field];
    return ms === null ? [] : [{ name, ms, tone: field }];
  });
  if (spent.length === 0) return null;
  const total = start === null || end === null ? 0 : Date.parse(end) - Date.parse(start);
  const rest = total - spent.reduce((sum, { ms }) => sum + ms, 0);
  const parts = rest < 1 ? spent : [...spent, { name: "rest", ms: rest, tone: "rest" }];
  return (
    <div class="phases">
      <div class="phase-bar" aria-hidden="true">
        {parts.map(({ name, ms, tone }) => (
          <div
            key={name}
            class={`phase ${tone}`}
            style={{ flexGrow: String(Math.max(ms, 0.01)) }}
          />
        ))}
      </div>
      <ul class="phase-names">
        {parts.map(({ name, ms, tone }) => (
          <li key={name}>
            <i class={`phase ${tone}`} /> {name} <span class="number">{durationText(ms)}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
