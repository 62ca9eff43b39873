// Messages to the user.

const NOTICE_MS = 6000;

export class Notices {
  /** `announcement`: an element that only screen readers present. `notice`: one that is seen. */
  constructor(announcement, notice) {
    this.announcement = announcement;
    this.notice = notice;
    this.timer = 0;
  }

  /** Tells users of screen readers what others see on the page anyway. */
  say(text) {
    this.announcement.textContent = text;
  }

  /** Tells everybody, for a few seconds. */
  tell(text) {
    this.say(text);
    this.notice.textContent = text;
    this.notice.hidden = false;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.notice.hidden = true;
    }, NOTICE_MS);
  }
}
