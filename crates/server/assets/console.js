// What script adds to the console: signing in from a link, copying, keys, and live update. Every page works
// without.
"use strict";

(() => {
  // The code of a one-time link stands behind "#": it is sent as a form and taken out of the address.
  const form = document.getElementById("sign-in");
  const code = location.hash.slice(1);
  if (form && /^[A-Za-z0-9_-]{43}$/.test(code)) {
    history.replaceState(null, "", location.pathname + location.search);
    form.elements.namedItem("code").value = code;
    // Only where the address was opened by itself: a link of others could carry their code.
    if ("byItself" in form.dataset) {
      form.submit();
      return;
    }
  }

  // A form that was sent is not sent again by a second click; its key makes a repeat harmless anyway.
  document.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (button && event.target.method === "post") {
      setTimeout(() => { button.disabled = true; }, 0);
    }
  });
  // A page that comes back from the browser's memory can be sent again.
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) location.reload();
  });

  const copy = async (text, button) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      area.className = "hidden";
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  };
  const addCopying = () => {
    for (const element of document.querySelectorAll("[data-copy]:not([data-copied])")) {
      element.dataset.copied = "";
      const button = document.createElement("button");
      button.type = "button";
      button.className = "plain copy";
      button.textContent = "Copy";
      const text = element.textContent.replace(/^GET /, "");
      button.addEventListener("click", () => copy(text, button));
      (element.closest("a") || element).after(" ", button);
    }
  };
  addCopying();

  // The browser knows its zone, so that nobody has to write it.
  const look = document.getElementById("look");
  const zone = look?.elements.namedItem("zone");
  if (zone && zone.value === "") zone.value = Intl.DateTimeFormat().resolvedOptions().timeZone || "";
  const changeTheme = () => {
    const themes = ["system", "light", "dark"];
    const theme = look?.elements.namedItem("theme");
    if (!theme) return;
    theme.value = themes[(themes.indexOf(theme.value) + 1) % themes.length];
    look.submit();
  };

  // Keys: "/" finds, "g" and a letter goes to a place, "j" and "k" move between rows, "t" changes the theme,
  // "p" pauses live update.
  const base = document.querySelector(".brand")?.getAttribute("href");
  const places = { o: "", r: "runs", d: "doubts", a: "approvals", u: "duplicates", e: "effects", f: "flows", s: "schedules", c: "connections", w: "tasks" };
  let going = false;
  let row = -1;
  let changePause = () => {};
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (going) {
      going = false;
      if (event.key in places && base) location.assign(base + places[event.key]);
      return;
    }
    const rows = [...document.querySelectorAll("tbody tr a:first-of-type")];
    if (event.key === "/") {
      const box = document.getElementById("q");
      if (box) { event.preventDefault(); box.focus(); box.select(); }
    } else if (event.key === "g") {
      going = true;
    } else if (event.key === "t") {
      changeTheme();
    } else if (event.key === "p") {
      changePause();
    } else if ((event.key === "j" || event.key === "k") && rows.length > 0) {
      row = Math.min(rows.length - 1, Math.max(0, row + (event.key === "j" ? 1 : -1)));
      rows[row].focus();
    }
  });

  // Live update. One tab of a browser has the lock and holds the one stream; the others follow what it says.
  // A stream says only that something changed: a tab then asks for its own page again, and takes over what
  // differs. Nothing here makes markup of text.
  const live = document.getElementById("live");
  if (!live || !base) return;
  const POLL = 5000;
  const DEAF = 12000;
  const topic = live.dataset.topic;
  // How long a page rests after it was asked for. The more browsers follow, the longer: the server says it.
  const REST = topic.startsWith("run:") ? 1000 : 5000;
  let rest = REST;
  const restFor = (ms) => { rest = Math.max(REST, Number(ms) || 0); };
  const address = base + "live";
  const self = Math.random().toString(36).slice(2);
  let mark = live.dataset.mark;
  let latest = mark;
  let heard = 0;
  let busy = false;
  let over = false;
  let tag = "";
  let leading = null;

  const kept = (value) => {
    try {
      if (value !== undefined) localStorage.setItem("semel-live", value);
      return localStorage.getItem("semel-live");
    } catch {
      return value ?? null;
    }
  };
  let paused = kept() === "paused";
  const watching = () => !document.hidden && !paused && !over;

  const pause = document.createElement("button");
  pause.type = "button";
  pause.className = "plain pause";
  const showPause = () => {
    pause.textContent = paused ? "Paused" : "Live";
    pause.title = paused ? "Update this page by itself again" : "Stop updating this page by itself";
  };
  showPause();
  document.querySelector(".look")?.before(pause);

  const news = document.createElement("p");
  news.className = "news";
  news.setAttribute("role", "status");
  live.before(news);
  const tell = (text, label, act) => {
    if (news.firstChild?.data === text) return;
    news.replaceChildren(text);
    if (!label) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "plain";
    button.textContent = label;
    button.addEventListener("click", act);
    news.append(" ", button);
  };
  const end = (text) => {
    over = true;
    tell(text, "Load this page again", () => location.reload());
  };

  // What a person is filling in is not changed under their hands.
  const isTyped = () => [...live.querySelectorAll("form")].some((one) =>
    one.contains(document.activeElement) || [...one.elements].some((it) =>
      it.type === "radio" || it.type === "checkbox" ? it.checked !== it.defaultChecked
        : it.tagName === "SELECT" ? false
        : "defaultValue" in it && it.value !== it.defaultValue));

  const rowsOf = (list) => [...list.querySelectorAll("tbody tr, .doubts > li")];
  const keyOf = (one) => one.querySelector("a[href]")?.getAttribute("href");
  let newRows = new Set();
  let leftRows = false;
  // A list does not jump: what is in it already changes in its place, and what is new waits to be asked for.
  const matchList = (old, fresh) => {
    const known = new Map(rowsOf(old).map((one) => [keyOf(one), one]));
    for (const one of rowsOf(fresh)) {
      const there = known.get(keyOf(one));
      if (there) match(there, one);
      else newRows.add(keyOf(one));
      known.delete(keyOf(one));
    }
    leftRows ||= known.size > 0;
  };
  // Makes a tree like another one, node by node, so that focus, selection and what is open stay.
  const match = (old, fresh) => {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== fresh.data) old.data = fresh.data;
      return;
    }
    if (old.classList.contains("rows") && rowsOf(old).length > 0) return matchList(old, fresh);
    if (old.tagName === "FORM" && old.action === fresh.action) return;
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    const isOf = (a, b) => a.nodeName === b.nodeName && (a.id || "") === (b.id || "");
    let at = old.firstChild;
    for (const one of [...fresh.childNodes]) {
      let there = at;
      while (there && !isOf(there, one)) there = there.nextSibling;
      if (!there) {
        old.insertBefore(document.importNode(one, true), at);
        continue;
      }
      while (at !== there) {
        const gone = at;
        at = at.nextSibling;
        gone.remove();
      }
      match(there, one);
      at = there.nextSibling;
    }
    while (at) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
  };

  const update = (fresh) => {
    if (isTyped()) {
      tell("This page has changed.", "Show", () => location.reload());
      return;
    }
    newRows = new Set();
    leftRows = false;
    match(live, fresh);
    addCopying();
    const number = newRows.size;
    const what = live.querySelector(".doubts") ? ["new doubt", "new doubts"] : ["new run", "new runs"];
    if (number > 0) tell(`${number} ${what[number === 1 ? 0 : 1]}.`, "Show", () => location.reload());
    else if (leftRows) tell("The list has changed.", "Show", () => location.reload());
    else news.replaceChildren();
  };

  // The parser of a request's document makes no script of what it reads.
  const refresh = () => {
    if (busy || latest === mark || !watching()) return;
    busy = true;
    const request = new XMLHttpRequest();
    request.open("GET", location.pathname + location.search);
    request.responseType = "document";
    request.setRequestHeader("Semel-Live", "1");
    request.onloadend = () => {
      const fresh = request.response?.getElementById("live");
      if (request.status === 200 && fresh?.dataset.topic === topic) {
        mark = fresh.dataset.mark;
        update(fresh);
      } else if (request.status === 200) {
        end("You are signed out, or this page is no longer there.");
      }
      setTimeout(() => { busy = false; refresh(); }, rest);
    };
    request.send();
  };
  const hear = ({ marks, rest_ms }) => {
    if (!(topic in marks)) return;
    heard = Date.now();
    restFor(rest_ms);
    latest = marks[topic];
    refresh();
  };

  const channel = "BroadcastChannel" in window ? new BroadcastChannel("semel-live") : null;
  const say = (message) => channel?.postMessage({ ...message, self, address });
  const announce = () => {
    const message = { topic, watching: watching() };
    say(message);
    leading?.({ ...message, self, address });
  };
  if (channel) channel.onmessage = ({ data }) => {
    if (data.marks && data.address === address) hear(data);
    if (data.who) announce();
    leading?.(data);
  };

  const lead = () => {
    const tabs = new Map();
    let stream = null;
    let asked = "";
    const open = () => {
      const wanted = [...tabs.values()].filter((it) => it.watching && it.address === address);
      const topics = [...new Set(wanted.map((it) => it.topic))].sort().slice(0, 16);
      const query = topics.map((it) => "topic=" + encodeURIComponent(it)).join("&");
      if (query === asked) return;
      asked = query;
      stream?.close();
      stream = query ? new EventSource(`${address}?${query}`) : null;
      if (!stream) return;
      stream.onmessage = (event) => {
        const said = JSON.parse(event.data);
        say(said);
        hear(said);
      };
      // A refusal is final to a browser. Until the next try every tab asks by itself.
      stream.onerror = ({ target }) => {
        if (target.readyState === EventSource.CLOSED && target === stream) {
          setTimeout(() => { asked = ""; open(); }, 30000);
        }
      };
    };
    leading = (message) => {
      if (message.topic) tabs.set(message.self, { ...message, at: Date.now() });
      if (message.gone) tabs.delete(message.self);
      open();
    };
    const ask = () => {
      for (const [one, tab] of tabs) if (Date.now() - tab.at > 90000) tabs.delete(one);
      say({ who: true });
      announce();
    };
    setInterval(ask, 60000);
    ask();
  };
  if (channel && window.EventSource && navigator.locks) {
    navigator.locks.request("semel-live", () => { lead(); return new Promise(() => {}); });
  }

  // A tab that hears nothing asks by itself: without locks, beside a stream of another namespace, or where a
  // server has no place for one more.
  const poll = async () => {
    if (!watching() || Date.now() - heard < DEAF) return;
    const headers = tag ? { "If-None-Match": tag } : {};
    const ask = { headers, cache: "no-store", redirect: "manual" };
    const answer = await fetch(`${address}?once=yes&topic=${encodeURIComponent(topic)}`, ask).catch(() => null);
    if (answer?.type === "opaqueredirect") end("You are signed out.");
    restFor(answer?.headers.get("Semel-Rest-Ms"));
    if (!answer?.ok) return;
    tag = answer.headers.get("ETag") || "";
    const { marks } = await answer.json();
    latest = marks[topic];
    refresh();
  };
  const keepPolling = () => setTimeout(async () => { await poll(); keepPolling(); }, Math.max(POLL, rest));
  keepPolling();

  const change = () => { announce(); refresh(); };
  changePause = () => {
    paused = !paused;
    kept(paused ? "paused" : "live");
    showPause();
    change();
  };
  pause.addEventListener("click", changePause);
  window.addEventListener("storage", (event) => {
    if (event.key !== "semel-live") return;
    paused = event.newValue === "paused";
    showPause();
    change();
  });
  document.addEventListener("visibilitychange", change);
  window.addEventListener("pagehide", () => say({ gone: true }));
  announce();
})();
