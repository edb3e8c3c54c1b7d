// The whole state of the view is the URL fragment, so that a link shows the same thing to the next reader.

export type State = Record<string, string>;
type Listener = (state: State, changed: Set<string>) => void;

let current: State = parse(location.hash);
const listeners: Listener[] = [];

function parse(hash: string): State {
  const out: State = {};
  for (const [key, value] of new URLSearchParams(hash.replace(/^#/, ""))) out[key] = value;
  return out;
}

function address(state: State): string {
  const params = new URLSearchParams();
  for (const key of Object.keys(state).sort()) if (state[key]) params.set(key, state[key]);
  return "#" + params.toString();
}

export function state(): State {
  return current;
}

/** Change the state. `push` makes a step that the browser's Back undoes. Empty values leave the fragment. */
export function go(change: State, push = false): void {
  const next: State = { ...current, ...change };
  for (const key of Object.keys(next)) if (!next[key]) delete next[key];
  const url = address(next);
  if (url === address(current)) return;
  if (push) history.pushState(null, "", url);
  else history.replaceState(null, "", url);
  apply(next);
}

/** A link's href for a state that replaces everything but the theme, which stays. */
export function link(target: State): string {
  return address(target);
}

function apply(next: State): void {
  const changed = new Set<string>();
  for (const key of new Set([...Object.keys(current), ...Object.keys(next)])) {
    if (current[key] !== next[key]) changed.add(key);
  }
  current = next;
  if (changed.size) for (const listener of listeners) listener(current, changed);
}

export function listen(listener: Listener): void {
  listeners.push(listener);
}

function followed(): void {
  const next = parse(location.hash);
  if (current.theme && !next.theme) {
    next.theme = current.theme;
    history.replaceState(null, "", address(next));
  }
  apply(next);
}

addEventListener("popstate", followed);
addEventListener("hashchange", followed);
